<?php
// An application of Laravel 8 with the defaults of its framework, that has routes/api.php under /api.
$app = new Illuminate\Foundation\Application(dirname(__DIR__));
$app->singleton(Illuminate\Contracts\Http\Kernel::class, Illuminate\Foundation\Http\Kernel::class);
$app->singleton(Illuminate\Contracts\Console\Kernel::class, Illuminate\Foundation\Console\Kernel::class);
$app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);
$app->booted(fn () => Illuminate\Support\Facades\Route::prefix('api')->group(dirname(__DIR__) . '/routes/api.php'));

return $app;
