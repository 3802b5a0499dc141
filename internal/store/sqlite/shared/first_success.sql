-- Whether a finished row succeeded at its first try. The history has no row of that attempt, and the archived row says all
-- of it: store.Settlement.InHistory and NewResult.
{of}state = 'succeeded' AND {of}attempt = 1
