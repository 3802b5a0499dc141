package store

// Became is the result of an operator's request: the state that the task is in now, or Cancelling.
type Became string

// Cancelling means that the task runs and is asked to stop. Its target may still finish it.
const Cancelling Became = "cancelling"
