/** Numbers of messages: bugs in what the relay concludes from them. */
export const NUMBERS = [];
