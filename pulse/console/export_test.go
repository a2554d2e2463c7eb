package console

// Expire makes the console read again, as if its interval had passed.
func Expire(c *Console) { c.changed() }
