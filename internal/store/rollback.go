package store

// RollbackLooked is how many tasks of a batch are looked at, live ones and finished ones each, to find one that can be rolled back.
const RollbackLooked = 1000
