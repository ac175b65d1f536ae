"""From a prompt's token ids to text: scheduling, prefix cache, prefill and decode on one engine thread."""
