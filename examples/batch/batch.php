<?php
// An endpoint that gets many tasks in one request. Each line of the response ends one task, and is sent when that has ended.
// Run it with: PHP_CLI_SERVER_WORKERS=4 php -S 127.0.0.1:8080 batch.php
declare(strict_types=1);

function greet(array $data): array
{
    return ['greeting' => 'Hello, ' . ($data['name'] ?? throw new DomainException('name is missing')) . '!'];
}

$body = json_decode(file_get_contents('php://input'), true);
header('Content-Type: application/x-ndjson');
while (ob_get_level() > 0) {
    ob_end_flush();
}
foreach ($body['data']['tasks'] as ['data' => $data, 'task' => ['id' => $id]]) {
    try {
        $line = ['id' => $id, 'result' => greet($data)];
    } catch (DomainException $e) {
        $line = ['id' => $id, 'error' => $e->getMessage(), 'retryable' => false];
    }
    echo json_encode($line), "\n";
    flush();
}
