-- Whether there may be something for unblock to do.
EXISTS (SELECT FROM {schema}.ended_note AS n) OR EXISTS (SELECT FROM {schema}.dependent AS d WHERE d.stage = 'look')
    OR EXISTS (SELECT FROM {schema}.dependent AS d WHERE d.stage = 'decide') OR EXISTS (SELECT FROM {schema}.revived_note AS r)
