<?php

namespace App\Providers;

class AppServiceProvider extends \Illuminate\Support\ServiceProvider
{
}
