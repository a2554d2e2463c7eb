// Package echoes runs services whose methods handle events.
package echoes
