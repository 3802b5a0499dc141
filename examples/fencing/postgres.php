<?php
// Points are added exactly once, however often the task runs. On PostgreSQL: php postgres.php credit|import|mirror
declare(strict_types=1);

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
    $db = new PDO(getenv('DATABASE_DSN'));
    $db->beginTransaction();
    run($db, 'SELECT leasehold.hold(?, ?)', $task['id'], $task['fence']);
    add($db, $data['name'], $data['points']);
    run($db, 'SELECT leasehold.complete(?, ?, ?)', $task['id'], $task['fence'], '{"credited": true}');
    $db->commit();
}

/** Many effects: each commits with the position after it, and only while the lease is held. */
function importAll(array $task, array $data): void
{
    $db = new PDO(getenv('DATABASE_DSN'));
    do {
        $db->beginTransaction();
        run($db, 'SELECT leasehold.hold(?, ?)', $task['id'], $task['fence']);
        run($db, 'INSERT INTO reached (task) VALUES (?) ON CONFLICT DO NOTHING', $task['id']);
        $done = run($db, 'SELECT done FROM reached WHERE task = ?', $task['id'])->fetchColumn();
        foreach (array_slice($data['credits'], $done, 1) as [$name, $points]) { // or a hundred per commit
            add($db, $name, $points);
            $done++;
        }
        run($db, 'UPDATE reached SET done = ? WHERE task = ?', $done, $task['id']);
        $db->commit();
    } while ($done < count($data['credits']));
}

/** Effects in another database: it cannot see leases, but it refuses a fence below the highest one seen. */
function mirror(array $task, array $data): void
{
    $db = new PDO(getenv('OTHER_DATABASE_DSN'));
    do {
        $db->beginTransaction();
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
        $db->commit();
    } while ($done < count($data['credits']));
}

$envelope = json_decode(stream_get_contents(STDIN), true, flags: JSON_THROW_ON_ERROR);
$work = ['credit' => credit(...), 'import' => importAll(...), 'mirror' => mirror(...)][$argv[1]];
$work($envelope['task'], $envelope['data']);
