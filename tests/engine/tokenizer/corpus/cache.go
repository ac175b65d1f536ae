package cache

import (
	"context"
	"errors"
	"sync"
	"time"
)

var ErrMiss = errors.New("cache: no such key")

type entry[V any] struct {
	value   V
	expires time.Time
}

// Cache keeps values for a while. The zero value is ready to use.
type Cache[K comparable, V any] struct {
	mu      sync.RWMutex
	entries map[K]entry[V]
	TTL     time.Duration `json:"ttl,omitempty"`
}

func (c *Cache[K, V]) Get(ctx context.Context, key K, load func(context.Context, K) (V, error)) (V, error) {
	c.mu.RLock()
	e, ok := c.entries[key]
	c.mu.RUnlock()
	if ok && time.Now().Before(e.expires) {
		return e.value, nil
	}
	value, err := load(ctx, key)
	if err != nil {
		var zero V
		return zero, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = make(map[K]entry[V])
	}
	c.entries[key] = entry[V]{value: value, expires: time.Now().Add(c.TTL)}
	return value, nil
}
