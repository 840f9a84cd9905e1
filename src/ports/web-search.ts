/** A page that a web search found. */
export interface WebSearchResult {
  url: string;
  /** `""` if the provider reports none. */
  title: string;
  /** Text about the page. `""` if the provider reports none. */
  text: string;
}

/** Answer of a web search by a model. */
export interface WebSearchAnswer {
  /** The model's report about the pages. */
  text: string;
  /** The pages, each address once. */
  results: readonly WebSearchResult[];
}
