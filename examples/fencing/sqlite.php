<?php
// Points are added exactly once, however often the task runs. On SQLite: php sqlite.php credit|import|mirror
declare(strict_types=1);

function connect(string $variable): PDO
{
    $db = new PDO(getenv($variable));
    $db->exec('PRAGMA busy_timeout = 5000'); // wait for a turn to write: PHP's default is no wait
    return $db;
}

function run(PDO $db, string $sql, mixed ...$values): PDOStatement
{
    $statement = $db->prepare($sql);
    $statement->execute($values);
    return $statement;
}

function add(PDO $db, string $name, int $points): void
{
    if (run($db, 'UPDATE account SET points = points + ? WHERE name = ?', $points, $name)->rowCount() === 0) {
        throw new RuntimeException("there is no account $name"); // closing the connection rolls back the transaction
    }
}

/** One effect: the effect and the task's completion are one commit. */
function credit(array $task, array $data): void
{
    $db = connect('DATABASE_DSN');
    $db->exec('BEGIN IMMEDIATE'); // PDO's beginTransaction would begin with a read
    run($db, 'INSERT INTO hold (id, fence) VALUES (?, ?)', $task['id'], $task['fence']);
    add($db, $data['name'], $data['points']);
    $complete = 'INSERT INTO complete (id, fence, result) VALUES (?, ?, ?)';
    run($db, $complete, $task['id'], $task['fence'], '{"credited": true}');
    $db->exec('COMMIT');
}

/** Many effects: each commits with the position after it, and only while the lease is held. */
function importAll(array $task, array $data): void
{
    $db = connect('DATABASE_DSN');
    do {
        $db->exec('BEGIN IMMEDIATE');
        run($db, 'INSERT INTO hold (id, fence) VALUES (?, ?)', $task['id'], $task['fence']);
        run($db, 'INSERT INTO reached (task) VALUES (?) ON CONFLICT DO NOTHING', $task['id']);
        $done = run($db, 'SELECT done FROM reached WHERE task = ?', $task['id'])->fetchColumn();
        foreach (array_slice($data['credits'], $done, 1) as [$name, $points]) { // or a hundred per commit
            add($db, $name, $points);
            $done++;
        }
        run($db, 'UPDATE reached SET done = ? WHERE task = ?', $done, $task['id']);
        $db->exec('COMMIT');
    } while ($done < count($data['credits']));
}

/** Effects in another database: it cannot see leases, but it refuses a fence below the highest one seen. */
function mirror(array $task, array $data): void
{
    $db = connect('OTHER_DATABASE_DSN');
    do {
        $db->exec('BEGIN IMMEDIATE');
        $done = run($db, 'INSERT INTO guard (task, last_fence) VALUES (?, ?) ON CONFLICT (task) DO UPDATE
            SET last_fence = excluded.last_fence WHERE guard.last_fence <= excluded.last_fence
            RETURNING done', $task['id'], $task['fence'])->fetchColumn();
        if ($done === false) {
            throw new RuntimeException('a later attempt has been here: this one stops');
        }
        foreach (array_slice($data['credits'], $done, 1) as [$name, $points]) {
            add($db, $name, $points);
            $done++;
        }
        run($db, 'UPDATE guard SET done = ? WHERE task = ?', $done, $task['id']);
        $db->exec('COMMIT');
    } while ($done < count($data['credits']));
}

$envelope = json_decode(stream_get_contents(STDIN), true, flags: JSON_THROW_ON_ERROR);
$work = ['credit' => credit(...), 'import' => importAll(...), 'mirror' => mirror(...)][$argv[1]];
$work($envelope['task'], $envelope['data']);
