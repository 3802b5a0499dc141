package chunk

// NextSize is nextSize.
var NextSize = nextSize
