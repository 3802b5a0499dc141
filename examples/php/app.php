<?php
// A small application: it stores names, and has Leasehold run the greetings and the reports.
// Run it with: php -S 127.0.0.1:8080 app.php
declare(strict_types=1);

require __DIR__ . '/db.php';

/** Each name and its task are written in one transaction: all or nothing. */
function addGreetings(Db $db, array $body): array
{
    return [201, ['tasks' => $db->transaction(fn () => array_map(function (string $name) use ($db) {
        $db->run('INSERT INTO greeting (name) VALUES (?)', $name);
        return $db->enqueue('greeting.send', ['name' => $name]);
    }, $body['names']))]];
}

function addReport(Db $db, array $body): array
{
    return [201, ['tasks' => $db->transaction(function () use ($db, $body) {
        $db->run('INSERT INTO report (name) VALUES (?)', $body['name']);
        return [$db->enqueue('report.build', ['name' => $body['name']])];
    })]];
}

/** The callback. It may arrive more than once, so it changes only what is not done yet. */
function greet(Db $db, array $envelope): array
{
    $name = $envelope['data']['name'];
    return $db->transaction(function () use ($db, $name, $envelope) {
        $sql = 'UPDATE greeting SET greeted_by = ? WHERE name = ? AND greeted_by IS NULL';
        $db->run($sql, $envelope['task']['id'], $name);
        if (!$db->run('SELECT name FROM greeting WHERE name = ?', $name)->fetch()) {
            return [422, ['error' => 'no such name']]; // rejected: a retry would not help
        }
        return [200, ['greeting' => "Hello, $name!"]];
    });
}

/** Checks the signature (https://www.standardwebhooks.com). */
function signed(string $body): bool
{
    $stamp = $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? '0';
    $secret = getenv('WEBHOOK_SECRET') ?: 'whsec_YW4gZXhhbXBsZSwgYW5kIG5vdCBhIHNlY3JldA==';
    $key = base64_decode(preg_replace('/^whsec_/', '', $secret));
    $message = ($_SERVER['HTTP_WEBHOOK_ID'] ?? '') . ".$stamp.$body";
    $want = 'v1,' . base64_encode(hash_hmac('sha256', $message, $key, true));
    foreach (explode(' ', $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? '') as $given) {
        if (hash_equals($want, $given) && abs(time() - (int) $stamp) < 300) {
            return true;
        }
    }
    return false;
}

function answer(string $path, string $body): array
{
    $routes = ['/greetings' => addGreetings(...), '/reports' => addReport(...), '/greet' => greet(...)];
    if (!isset($routes[$path])) {
        return [404, ['error' => 'no such place']];
    }
    if ($path === '/greet' && !signed($body)) {
        return [401, ['error' => 'the signature is not ours']];
    }
    try {
        $db = new Db();
        $db->createTables();
        return $routes[$path]($db, json_decode($body, true, flags: JSON_THROW_ON_ERROR));
    } catch (PDOException $error) {
        // 23505: PostgreSQL's unique violation; 23000 is SQLite's. The transaction is already rolled back.
        return [in_array($error->getCode(), ['23505', '23000'], true) ? 409 : 500, ['error' => $error->getMessage()]];
    }
}

[$status, $content] = answer($_SERVER['REQUEST_URI'], file_get_contents('php://input'));
http_response_code($status);
header('Content-Type: application/json');
echo json_encode($content);
