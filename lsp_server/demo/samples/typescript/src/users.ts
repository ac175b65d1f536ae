import { LruCache } from "./lruCache";

export interface User {
  id: number;
  name: string;
  email: string;
  active: boolean;
}

export type Fetcher = (id: number) => Promise<User>;

/** Users by id, fetched once and kept for as long as they are in use. */
export class UserDirectory {
  private readonly cache = new LruCache<number, User>(100);

  constructor(private readonly fetchUser: Fetcher) {}

  async find(id: number): Promise<User> {
    const cached = this.cache.get(id);
    if (cached !== undefined) {
      return cached;
    }
    const user = await this.fetchUser(id);
    this.cache.set(id, user);
    return user;
  }

  findAll(ids: number[]): Promise<User[]> {
    return Promise.all(ids.map((id) => this.find(id)));
  }
}

export function activeUsers(users: User[]): User[] {
  return users.filter((user) => user.active);
}

export function byEmail(users: User[], email: string): User | undefined {
  return users.find((user) => user.email.toLowerCase() === email.toLowerCase());
}

export function sortByName(users: User[]): User[] {
  return [...users].sort((a, b) => a.name.localeCompare(b.name));
}
