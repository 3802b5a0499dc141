# What `rails new shop --api --database=postgresql` generates, without what the page does not use, and for Rails 6.1.
require "rails"
require "active_record/railtie"
require "action_controller/railtie"

module Shop
  class Application < Rails::Application
    config.load_defaults 6.1
    config.api_only = true
    config.eager_load = false
    config.cache_classes = false
    config.consider_all_requests_local = true
    config.secret_key_base = "the test's own"
  end
end

# Migrations of the page are those of a newer Rails.
ActiveSupport.on_load(:active_record) do
  ActiveRecord::Migration.singleton_class.prepend(Module.new { def [](_version) = super(6.1) })
end
