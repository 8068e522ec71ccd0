"""The commands, a module for each kind of work; each imports what it needs when it runs."""
