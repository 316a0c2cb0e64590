/** Connects, and says which broker it was and where when that fails. */
export async function reach<T>(broker: string, where: string, connect: () => Promise<T>): Promise<T> {
  try {
    return await connect();
  } catch (error) {
    const reason = error instanceof Error ? error.message || (error as NodeJS.ErrnoException).code : error;
    throw new Error(`${broker} at ${withoutPassword(where)} could not be reached: ${reason}`, { cause: error });
  }
}

export function withoutPassword(url: string): string {
  return url.replace(/\/\/([^:@/]*):.*@/, '//$1@');
}
