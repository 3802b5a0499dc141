<?php
// A long task behind HTTP: the response is a stream, in which each line is a ping and the last line is the result. The next
// attempt receives the last checkpoint, and resumes after that letter. If the connection is closed, because the task was
// cancelled or its agent is gone, PHP ends the script when it writes the next line.
// Run it with: PHP_CLI_SERVER_WORKERS=4 php -S 127.0.0.1:8082 letters.php
declare(strict_types=1);

function say(array $line): void
{
    echo json_encode($line), "\n";
    flush();
}

['data' => ['letters' => $total], 'task' => $task] = json_decode(file_get_contents('php://input'), true);
$start = $task['checkpoint'] ?? 0;
header('Content-Type: application/x-ndjson');
set_time_limit(0);
while (ob_get_level() > 0) {
    ob_end_flush();
}

for ($n = $start + 1; $n <= $total; $n++) {
    usleep(50_000); // the time that the printer takes
    file_put_contents(getenv('OUTBOX') ?: 'outbox.txt', "letter $n, attempt {$task['attempt']}\n", FILE_APPEND);
    say(['progress' => ['done' => $n, 'total' => $total], 'checkpoint' => $n]);
}
say(['result' => ['letters' => $total, 'after' => $start]]);
