//go:build unix && !darwin

package fleet

// rssUnit is what the kernel counts memory in, in bytes.
const rssUnit = 1 << 10
