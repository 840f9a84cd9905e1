/** URL path of the console. The page's files and the endpoints for one-time links are below this path. */
export const CONSOLE_PATH = "/console";
