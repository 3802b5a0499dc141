-- The error of a row as the attempt after it gets it, and of a task in the view tasks, which has shown_error already.
{of}error
