threads 3, 3
port ENV.fetch("PORT", 3000)
