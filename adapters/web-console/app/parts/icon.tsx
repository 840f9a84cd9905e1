/** SVG outlines on a 24 × 24 grid, drawn with strokes. */
const PATHS = {
  activity: "M3 12h4l3-8 4 16 3-8h4",
  archive: "M3 5h18v4H3V5ZM5 9v10h14V9M10 13h4",
  "arrow-down": "M12 5v14M6 13l6 6 6-6",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l1.5 2h-15L6 16ZM10 21h4",
  brain: "M9 18h6M10 21h4M12 3a6 6 0 0 0-3.6 10.8c.7.6 1.1 1.3 1.1 2.2h5c0-.9.4-1.6 1.1-2.2A6 6 0 0 0 12 3Z",
  check: "M5 12.5l4.5 4.5L19 7.5",
  "chevron-down": "M6 9l6 6 6-6",
  "chevron-right": "M9 6l6 6-6 6",
  coins:
    "M4 6.5C4 5 6.7 4 10 4s6 1 6 2.5S13.3 9 10 9 4 8 4 6.5ZM4 6.5v5C4 13 6.7 14 10 14M16 6.5V9M8 15.5C8 14 10.7 13 14 13s6 1 6 2.5-2.7 2.5-6 2.5-6-1-6-2.5ZM8 15.5v3C8 20 10.7 21 14 21s6-1 6-2.5v-3",
  copy: "M9 9h10a1 1 0 0 1 1 1v10a1 1 0 0 1-1 1H9a1 1 0 0 1-1-1V10a1 1 0 0 1 1-1ZM5 15H4a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1h10a1 1 0 0 1 1 1v1",
  file: "M6 3h8l5 5v12a1 1 0 0 1-1 1H6a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1ZM14 3v5h5",
  "file-edit": "M13 21H6a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1h8l5 5v2M14 3v5h5M16.5 20.5l-2.5.5.5-2.5 5-5 2 2-5 5Z",
  "file-plus": "M6 3h8l5 5v12a1 1 0 0 1-1 1H6a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1ZM14 3v5h5M12 11v6M9 14h6",
  fork: "M7 4v7a4 4 0 0 0 4 4h6M7 4v16M14 11.5l3.5 3.5-3.5 3.5",
  globe: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM3 12h18M12 3c3 3 3.5 6 3.5 9s-.5 6-3.5 9c-3-3-3.5-6-3.5-9S9 6 12 3Z",
  image: "M4 4h16v16H4V4ZM8.5 10a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM20 15l-5-5L5 20",
  keyboard: "M3 6h18v12H3V6ZM7 10h.01M11 10h.01M15 10h.01M18 10h.01M7 14h10",
  list: "M9 6h11M9 12h11M9 18h11M4.5 6h.01M4.5 12h.01M4.5 18h.01",
  menu: "M4 7h16M4 12h16M4 17h16",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5Z",
  paperclip: "M20 11.5l-8.3 8.3a5.3 5.3 0 0 1-7.5-7.5L12.5 4a3.5 3.5 0 0 1 5 5l-8.3 8.3a1.8 1.8 0 0 1-2.5-2.5L14.2 7",
  pencil: "M4 20l.8-4L16 4.8a2 2 0 0 1 2.8 0l.4.4a2 2 0 0 1 0 2.8L8 19.2 4 20Z",
  pin: "M9 4h6l-1 6 3 3v2H7v-2l3-3-1-6ZM12 15v6",
  plug: "M9 3v5M15 3v5M6 8h12v3a6 6 0 0 1-12 0V8ZM12 17v4",
  plus: "M12 5v14M5 12h14",
  question: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM9.5 9.5a2.5 2.5 0 1 1 3.5 2.3c-.7.3-1 .8-1 1.7M12 16.8h.01",
  redo: "M20 10H9a5 5 0 0 0 0 10h3M16 6l4 4-4 4",
  retry: "M4 12a8 8 0 1 0 2.5-5.8M4 4v4.5h4.5",
  rewind: "M4 10h11a5 5 0 0 1 0 10h-3M8 6l-4 4 4 4",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14ZM16 16l4.5 4.5",
  send: "M12 19V5M6 11l6-6 6 6",
  settings: "M4 8h9M17 8h3M15 6v4M4 16h3M11 16h9M9 14v4",
  shield: "M12 3l7 3v5c0 4.5-3 8-7 10-4-2-7-5.5-7-10V6l7-3Z",
  sidebar: "M4 5h16v14H4V5ZM14.5 5v14",
  stop: "M7 7h10v10H7V7Z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8ZM12 2.5v2M12 19.5v2M4.5 12h-2M21.5 12h-2M6.7 6.7L5.3 5.3M18.7 18.7l-1.4-1.4M6.7 17.3l-1.4 1.4M18.7 5.3l-1.4 1.4",
  terminal: "M4 5h16v14H4V5ZM7.5 9.5L10 12l-2.5 2.5M12.5 14.5h4",
  tool: "M14.5 6.5a4 4 0 0 1 5-1.5l-2.5 2.5 1.5 1.5L21 6.5a4 4 0 0 1-5.5 5L8 19a2 2 0 0 1-3-3l7.5-7.5a4 4 0 0 1 2-2Z",
  trash: "M4 7h16M9 7V4h6v3M6.5 7l1 13h9l1-13M10 11v5M14 11v5",
  warning: "M12 4l9 16H3L12 4ZM12 10v4.5M12 17.3h.01",
  x: "M6 6l12 12M18 6L6 18",
} as const;

export type IconName = keyof typeof PATHS;

/** A small icon. Hidden from screen readers, because the text next to it has the same meaning. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg
      class="icon"
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="1.75"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
