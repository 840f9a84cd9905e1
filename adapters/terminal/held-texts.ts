/** Texts that were taken from the prompt and are not sent yet. */
export class HeldTexts {
  #texts: readonly string[] = [];

  /** Oldest first. */
  get texts(): readonly string[] {
    return this.#texts;
  }

  /** Keeps a text until `work` settles. Rejects like `work`, after `onReturned` got the text. */
  async hold(text: string, work: () => Promise<void>, onReturned: () => void): Promise<void> {
    this.#texts = [...this.#texts, text];
    try {
      await work();
    } catch (error) {
      this.#remove(text);
      onReturned();
      throw error;
    }
    this.#remove(text);
  }

  #remove(text: string): void {
    const index = this.#texts.indexOf(text);
    this.#texts = this.#texts.filter((_, i) => i !== index);
  }
}
