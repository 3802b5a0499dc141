<?php
// A worker: runs "hello" tasks, one after another. Each line of standard input is one attempt.
$replies = fopen('php://fd/3', 'w');

function reply(array $line): void
{
    global $replies;
    fwrite($replies, json_encode($line, JSON_THROW_ON_ERROR) . "\n");
}

function hello(array $data, array $task): mixed
{
    echo "hello from task {$task['id']}\n"; // output is kept with the attempt
    return ['greeting' => 'hello'];
}

reply(['ready' => true]);
while (($line = fgets(STDIN)) !== false) {
    $envelope = json_decode($line, true, 512, JSON_THROW_ON_ERROR);
    $task = $envelope['task'];
    $end = ['id' => $task['id'], 'fence' => $task['fence']]; // the last line repeats them
    try {
        $end['result'] = hello($envelope['data'], $task);
    } catch (Throwable $e) {
        echo "$e\n";
        $end['error'] = $e->getMessage(); // with 'retryable' => false it is not tried again
    }
    reply($end);
}
