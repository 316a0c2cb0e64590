const CAST =
  /::(?:"[^"]+"|[a-z_][\w.]*(?: varying| precision| with time zone| without time zone)?)(?:\(\d+\))?(?:\[\])*/gi;

/**
 * A default as it can be compared with the one of our DDL. A server prints the same one with or without casts, parentheses
 * and the schema of what it names, as its version and the session's search_path have it.
 */
export function plainDefault(text: string, schema: string | undefined): string {
  const bare = text
    .replace(/\boperator\(([^)]+)\)/gi, '$1')
    .replace(CAST, '')
    .replaceAll('"', '')
    .replaceAll('pg_catalog.', '');
  return (schema === undefined ? bare : bare.replaceAll(`'${schema}.`, `'`)).replace(/[()\s]/g, '');
}
