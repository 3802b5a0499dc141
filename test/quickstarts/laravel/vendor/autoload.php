<?php
// What Composer generates, for the packages of Debian.
require 'Illuminate/autoload.php';
spl_autoload_register(function (string $class): void {
    $file = __DIR__ . '/../app/' . str_replace('\\', '/', substr($class, strlen('App\\'))) . '.php';
    if (str_starts_with($class, 'App\\') && is_file($file)) {
        require $file;
    }
});
