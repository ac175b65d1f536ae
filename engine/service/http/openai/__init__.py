"""OpenAI's API: models, completions, chats, responses, embeddings."""
