"""`headrace demo`: prompts of three tenants through a real Kafka to a real model, live on one screen."""
