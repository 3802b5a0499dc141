package chunk

// NextSize is nextSize.
var NextSize = nextSize

// NoteSize is noteSize.
var NoteSize = noteSize
