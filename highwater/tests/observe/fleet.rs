//! A fleet: real stores scrape the endpoint, and what is judged through them is what the local record says.

