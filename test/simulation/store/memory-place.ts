/** Of a bucket of a transport. */
export const placeName = (transport: number, bucket: number): string => `${transport} ${bucket}`;
