package admin

// Command makes a command line for a shell.
var Command = command
