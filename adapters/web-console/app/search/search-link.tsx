import { Icon } from "../parts/icon.js";
import { useConsole } from "../state/context.js";

/** Link to the search in messages, with the text of the search in titles. */
export function SearchLink() {
  const store = useConsole();
  const text = store.sessionBrowser.search.value.trim();
  return (
    <a
      class="side-link"
      href="#/search"
      aria-current={store.route.value.name === "search" ? "page" : undefined}
      onClick={() => {
        if (text !== "") store.messageSearchText.value = text;
        store.isDrawerOpen.value = false;
      }}
    >
      <Icon name="search" /> Search messages
    </a>
  );
}
