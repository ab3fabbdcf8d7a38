"""What the service needs of Kafka and SQL, one a file. The protocols they fulfil stand in headrace.ingest.ports."""
