<?php

return [
    'default' => 'pgsql',
    'connections' => ['pgsql' => ['driver' => 'pgsql', 'url' => env('DATABASE_URL'), 'charset' => 'utf8']],
    'migrations' => 'migrations',
];
