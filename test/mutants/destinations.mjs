/** Destinations that are missing. */
export const DESTINATIONS = [];
