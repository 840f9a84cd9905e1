/** Rejected openings and words of a comment: `opening` or `word`, and the text. */
export function commentFaults(comment: string): (readonly [kind: string, text: string])[];
