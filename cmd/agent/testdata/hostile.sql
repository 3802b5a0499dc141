-- Rows as applications, tasks and agents may leave them. {…} are times beside now; ESC, CSI, RLO and so on stand for what a terminal obeys.
INSERT INTO agent (session, name, region, version, config, workers, types, started_at, seen_at, present_until, running, done, minute, redact)
VALUES (1, 'billing-1.internal.example.com-ESC[2J', 'eu-central-1RLO', 'v1.2.3-0.20261120080000-abcdef012345', '923b4c5d6e7f8091a2b3c4d5e6f70819', 32,
        '["invoice.send","account.book","video.resize.for.every.customer.of.the.whole.world","café.北京.emoji-👩‍🚀"]', {-73 hours}, {-1 seconds}, {+1 hours}, 31, 1234567, 54321, '{"invoice.send":["card"]}'),
       (2, 'b', NULL, 'v1.2.3', '923b4c5d', 4, '["none"]', {-73 hours}, {-49 hours}, {-49 hours}, 0, 7, 0, '{}');

INSERT INTO declaration (number, kind, name, hash, body, first_at, first_by, last_at, last_by) VALUES
    (1, 'task', 'invoice.send', '0123456789abcdef', '{"timeout":"\"30s\"","webhook.url":"\"http://127.0.0.1:8080/a/very/long/path/to/the/place/where/invoices/are/sent/from\""}', {-9 days}, 'billing-1', {-5 days}, 'billing-1'),
    (2, 'task', 'invoice.send', 'fedcba9876543210', '{"timeout":"\"45s\"","webhook.url":"\"http://127.0.0.1:8080/CSI31m/RLO/another/very/long/path/to/the/place/where/invoices/are/sent/from\""}', {-73 hours}, 'billing-1.internal.example.com-ESC[2J', {-1 days}, 'b'),
    (3, 'task', 'video.resize.for.every.customer.of.the.whole.world', '00aa11bb22cc33dd', '{}', {-73 hours}, 'billing-1', {-73 hours}, 'billing-1');
INSERT INTO declarer (session, number) VALUES (1, 2), (1, 3);
INSERT INTO sequence_rule (type, declared, on_failure) VALUES ('account.book', 1, 'block');

INSERT INTO batch (id, name, on_failure, labels, created_by, sealed, created_at, seen, total, succeeded, failed, failures, rollback_failed)
VALUES (1, 'move every customer of 北京 to az2 CSI31m and back again, twice', 'continue', '{"tenant":"acme\u001b[2J"}', 'alice@a-very-long-host-name.internal.example.comBEL', 1, {-73 hours}, 1, 123456, 98765, 432, 432, 21),
       (2, '', 'rollback', NULL, NULL, 0, {-73 hours}, 1, 0, 0, 0, 0, 0);

INSERT INTO task (id, type, state, priority, region, key, run_at, payload, labels, created_by, max_attempts, created_at, attempt, ever_started, fence, error, progress,
                  message, checkpoint, lock, tenant) VALUES
    (9000000001, 'video.resize.for.every.customer.of.the.whole.world', 'retry_pending', 10, 'eu-central-1RLO', 'key-ESC]0;title BEL-for-一二三四五六七八九十一二三四五六七八九十一二三四五六七八九十', {-73 hours},
     '{"file":"/srv/uploads/2026/11/20/a-file-with-a-long-name-that-does-not-end-soon.mov","card":"4111","note":"first\nsecond\tCSI31mRLO"}',
     '{"tenant":"acme","a-label-with-a-long-name":"and a long value, longer than most, so that it does not fit"}', 'billing-service-3.internal.example.com', 1000, {-4 days}, 999, 1, 12345678901,
     'exit code 1: psycopg2.errors.UndefinedTable: relation "report" does not exist ESC[31m LINE 1: SELECT * FROM report WHERE id = 7 RLO and the rest of the text goes on for long',
     '0.4', 'page 40 of 100 CSI2J 北京 for the whole of the last year, with all of its many pages and more', '{"page":40,"after":"some-key-CSI31m"}', 'account-ESC[2J', 'acme'),
    (9000000002, 'café.北京.emoji-👩‍🚀', 'pending', 0, NULL, NULL, {+90 minutes}, '[1,2,3]', NULL, NULL, NULL, {-73 hours}, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL),
    (9000000003, 'lostESC[2J.type.that.no.agent.declares.any.more.since.last.year', 'pending', 0, 'sgCSI31m', NULL, {-73 hours}, '{}', NULL, NULL, NULL, {-73 hours}, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO task (id, type, sequence, created_at, run_at) VALUES (9000000010, 'account.book', 'account/一二三四五六七八九十-ESC[2J-of-a-customer-with-a-long-name', {-73 hours}, {-73 hours}),
    (9000000011, 'account.book', 'account/一二三四五六七八九十-ESC[2J-of-a-customer-with-a-long-name', {-73 hours}, {-73 hours});
INSERT INTO task_archive (id, type, state, priority, run_at, payload, created_at, attempt, deferrals, ever_started, fence, session, outcome, error, output, started_at, finished_at, batch_id)
VALUES (8000000001, 'invoice.send', 'failed', 0, {-73 hours}, '{"card":"4111","n":1}', {-73 hours}, 3, 0, 1, 99, 1, 'failed',
        'attempt 3 of 3 failed: answered 500: ESC[2Jno such invoice, RLO in 北京 or anywhere else in the whole wide world',
        'a line that is printed by the task and is much longer than a terminal of eighty columns is wide, which stays as it is' || char(10) || 'ESC[31mred CSI2J BEL', {-73 hours}, {-73 hours}, 1);
INSERT INTO attempt (task_id, fence, ran_fence, session, ran_session, phase, attempt, outcome, error, output, state, started_at, ended_at) VALUES
    (8000000001, 97, 96, 1, NULL, 'run', 1, 'failed', 'answered 502: ESC[2J Bad Gateway, as the application behind the proxy was just being restarted', NULL, 'retry_pending', {-73 hours}, {-73 hours}),
    (8000000001, 98, 97, 2, 1, 'run', 2, 'timed_out', 'the attempt took longer than 30s', NULL, 'failed', {-73 hours}, {-73 hours}),
    (9000000001, 12345678900, 12345678899, 77, NULL, 'run', 999, 'failed', 'exit code 1: the disk is full RLO', 'ESC[31m', 'retry_pending', {-73 hours}, {-73 hours});

INSERT INTO type_pause (type, paused_at, paused_by, reason) VALUES
    ('café.北京.emoji-👩‍🚀', {-73 hours}, 'alice@a-very-long-host-name.internal.example.com', 'the bank is down ESC[2J until further notice, says its support, which may take the whole night');

INSERT INTO schedule (name, task, cron, timezone, payload, created_at) VALUES
    ('nightly-ESC[2J-report-of-a-customer-with-a-long-name', 'report.build.for.the.whole.of.last.year', '0 3 * * 1-5', 'Asia/Singapore', '{"kind":"daily CSI31m","of":"a customer with a long name, and of all of its many subsidiaries"}', {-73 hours});
UPDATE schedule SET last_slot = {-73 hours}, last_task = 8000000001, last_by = 'billing-1.internal.example.com-ESC[2J', missed_slots = 1234, paused_at = {-73 hours},
    paused_by = 'alice RLO who has a long name and a long title';

INSERT INTO chunk_plan (name, task, table_name, key_name, declared, source, size_start, ahead, created_at, pass, high, size, per_row, done_rows, paused_at, paused_by)
VALUES ('events-ESC[2J-of-the-whole-of-last-year', 'event.process.for.every.customer', 'public.event_with_a_long_name', 'id', 1, '{"where":"status = 0 CSI31m"}', 1000, 64, {-73 hours}, 2,
        '"key-ESC[2J-一二三四五六七八九十一二三四五六七八九十"', 1000, 0.001, 123456789, {-73 hours}, 'alice BEL');
INSERT INTO chunk_pass (plan, pass, whole, from_key, through_key, ranges, chunks, rows, sizes, first_key, last_key, batch_id, began_at, sealed_at) VALUES
    ('events-ESC[2J-of-the-whole-of-last-year', 1, 1, NULL, '"key-CSI2J-一二三四五六七八九十"', 1234, 1234, 1234000, '[1000,2000,4000,8000,16000]', '"a"', '"z"', 1, {-73 hours}, {-73 hours}),
    ('events-ESC[2J-of-the-whole-of-last-year', 2, 0, '"key-CSI2J-一二三四五六七八九十"', NULL, 0, 0, 0, '[]', NULL, NULL, NULL, {-49 hours}, NULL);
INSERT INTO chunk_range (task_id, plan, state, pass, step, item, planned, after_key, through_key, rows, failures) VALUES
    (8000000001, 'events-ESC[2J-of-the-whole-of-last-year', 'failed', 1, 1, 1, 1, NULL, '"key-ESC[2J-一二三四五六七八九十"', 1000, 3);
INSERT INTO bulk_change (id, requested_at, from_id, up_to, after_id, looked, done, refused, verb, filter, requested_by, reason, ended_at)
VALUES (1, {-73 hours}, 0, 100, 100, 100, 90, 10, 'retry', '{"type":"invoice.send"}', 'alice BEL', 'the bank is up ESC[2J', {-73 hours});
INSERT INTO audit (at, requested_by, verb, task_id, batch_id, schedule, chunks, agent, type, reason, answer) VALUES
    ({-73 hours}, 'alice ESC[2J who has a long name, and whom a long line is about', 'cancel', 9000000001, NULL, NULL, NULL, NULL, NULL, NULL, 'cancelled'),
    ({-72 hours}, NULL, 'retry', NULL, 1, NULL, NULL, NULL, NULL, NULL, 'retrying'),
    ({-71 hours}, 'bob', 'pause', NULL, NULL, 'nightly-ESC[2J-report-of-a-customer-with-a-long-name', NULL, NULL, NULL, NULL, 'paused'),
    ({-70 hours}, 'bob RLO', 'pause', NULL, NULL, NULL, 'events-ESC[2J-of-the-whole-of-last-year', NULL, NULL, NULL, 'paused CSI31m'),
    ({-69 hours}, 'bob', 'drain', NULL, NULL, NULL, NULL, 1, NULL, NULL, 'requested'),
    ({-68 hours}, 'carol', 'pause', NULL, NULL, NULL, NULL, NULL, 'café.北京.emoji-👩‍🚀', 'the bank is down ESC[2J until further notice, says its support', 'paused'),
    ({-67 hours}, 'carol', 'retry', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'bulk change 1: {"type":"invoice.send"}');
UPDATE schema_version SET applied_at = {-73 hours};
