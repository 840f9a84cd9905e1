/** Names of the strategies that come with gantry. */
export const STRATEGIES: readonly string[] = ["sliding-window", "summary"];
