package generator

// Loads is how often a run loaded packages.
func Loads(r Result) int { return r.loads }
