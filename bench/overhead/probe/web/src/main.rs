//! `web PORT`: an ordinary JSON service on axum, hyper and tokio, one thread, the system's allocator. A request reads a
//! query, builds a page of twenty items with their strings, and answers 2 KiB of JSON; `/` answers six bytes.

use axum::extract::{Path, Query};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Asked {
    user: String,
    page: Option<u32>,
}

#[derive(Serialize)]
struct Item {
    id: u32,
    title: String,
    owner: String,
    tags: Vec<String>,
}

#[derive(Serialize)]
struct Page {
    items: Vec<Item>,
    next: Option<String>,
}

async fn page(Path(from): Path<u32>, Query(asked): Query<Asked>) -> Json<Page> {
    let page = asked.page.unwrap_or(1);
    let item = |n: u32| Item {
        id: from + n,
        title: format!("item {} of page {page}", from + n),
        owner: asked.user.clone(),
        tags: ["new", "sale"].map(String::from).to_vec(),
    };
    Json(Page {
        items: (0..20).map(item).collect(),
        next: Some(format!(
            "/items/{from}?user={}&page={}",
            asked.user,
            page + 1
        )),
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "8080".into());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let routes = Router::new()
        .route("/items/{from}", get(page))
        .route("/", get(|| async { "ready\n" }));
    axum::serve(listener, routes).await
}
