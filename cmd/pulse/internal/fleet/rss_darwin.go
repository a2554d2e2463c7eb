package fleet

// rssUnit is what the kernel counts memory in, in bytes.
const rssUnit = 1
