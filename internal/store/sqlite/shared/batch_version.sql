-- What changes with each counter of a batch that a fold decides on, and with the request.
(round || ' ' || ifnull(requested, '') || ' ' || total || ' ' || succeeded || ' ' || failed || ' ' || cancelled || ' ' || rolling_back
        || ' ' || rolled_back || ' ' || rollback_failed)
