// Addresses: views of this page, and films on the server.

/** `#film?id=…`: what the page shows is in its address, so that it can be reloaded, kept and gone back to. */
export const view = (name, parameters) => `#${name}?${new URLSearchParams(parameters)}`;

export const filmPath = (film, tail = "") => `/v1/predictions/${encodeURIComponent(film.id)}${tail}`;
