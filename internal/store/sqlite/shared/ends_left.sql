-- Whether there may be something for Unblock to do.
EXISTS (SELECT 1 FROM ended_note) OR EXISTS (SELECT 1 FROM dependent WHERE unfinished = 0) OR EXISTS (SELECT 1 FROM revived_note)
