#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN_UP(n, a) (((n) + ((a) - 1)) & ~((size_t)(a) - 1))

typedef struct arena {
	uint8_t *base;
	size_t used, size;
} arena_t;

int arena_init(arena_t *a, size_t size)
{
	a->base = malloc(size);
	if (a->base == NULL)
		return -1;
	a->used = 0;
	a->size = size;
	return 0;
}

/* Returns NULL when the arena is full; memory is not cleared. */
void *arena_alloc(arena_t *a, size_t n, size_t align)
{
	size_t start = ALIGN_UP(a->used, align);

	if (start > a->size || n > a->size - start)
		return NULL;
	a->used = start + n;
	return a->base + start;
}

char *arena_strdup(arena_t *a, const char *s)
{
	size_t n = strlen(s) + 1;
	char *copy = arena_alloc(a, n, 1);

	return copy ? memcpy(copy, s, n) : NULL;
}
