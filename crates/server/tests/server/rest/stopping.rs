use std::{
    io::Write,
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

use entourage_server::{Front, Stopped, bind};
use entourage_store::{SystemClock, Unhealthy};

use super::{
    credentials::Credentials,
    faulty::{Fault, Faulty},
    server::{Server, memory_store},
};

#[test]
fn stopping_answers_what_has_begun_and_closes_the_store() {
    let store = Faulty::over(memory_store(1));
    let mut server = Server::with(Arc::clone(&store) as _, Default::default());
    server.check("PUT /users/a", "201");
    store.hooks.set(Fault::Hang);
    let (agent, address) = (server.agent.clone(), server.address);
    let begun = std::thread::spawn(move || {
        agent.put(format!("http://{address}/api/v1/users/b")).send_empty().unwrap().status().as_u16()
    });
    store.hooks.wait_for_a_commit();
    server.ask_to_stop();
    std::thread::sleep(Duration::from_millis(300));
    assert!(!*store.hooks.closed.lock().unwrap(), "closed while a request was running");
    assert!(TcpStream::connect(address).is_err(), "still accepting");
    store.hooks.let_go();
    assert_eq!(begun.join().unwrap(), 201);
    assert!(matches!(server.wait(), Stopped::AsAsked));
    assert!(*store.hooks.closed.lock().unwrap());
}

#[test]
fn a_poisoned_store_ends_the_server_and_a_degraded_one_does_not() {
    let store = Faulty::over(memory_store(1));
    let mut server = Server::with(Arc::clone(&store) as _, Default::default());
    store.hooks.set(Fault::Degraded(Unhealthy::StorageFull("no room".to_owned())));
    std::thread::sleep(Duration::from_millis(700));
    server.check("GET //healthz", "200");
    store.hooks.set(Fault::Degraded(Unhealthy::Poisoned("fsync failed".to_owned())));
    match server.wait() {
        Stopped::Poisoned(reason) => assert_eq!(reason, "poisoned: fsync failed"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn only_loopback_is_bound_without_credentials() {
    let front = Front::development(Arc::new(SystemClock));
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        let error = bind(address.parse().unwrap(), &front).await.unwrap_err().to_string();
        for part in ["no credentials are configured", "entourage key new", "auth.jwt.algorithm", "--http 127.0.0.1"] {
            assert!(error.contains(part), "{error}");
        }
    }
    bind("127.0.0.1:0".parse().unwrap(), &front).await.unwrap();
    // With credentials it is tried; nobody has this address.
    let credentials = Credentials::new();
    let error = bind("192.0.2.1:0".parse().unwrap(), &credentials.front()).await.unwrap_err().to_string();
    assert!(error.contains("cannot listen on 192.0.2.1:0") && !error.contains("credentials"), "{error}");
}

#[test]
fn whoever_never_finishes_a_request_does_not_delay_the_stop() {
    let mut server = Server::start();
    let headers = "host: localhost\r\ncontent-type: application/json\r\ncontent-length: 100";
    let body = format!("PUT /api/v1/users/a HTTP/1.1\r\n{headers}\r\n\r\n{{");
    let begun = ["", "GET /heal", "GET /healthz HTTP/1.1\r\nhost: local", &body].map(|bytes| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(bytes.as_bytes()).unwrap();
        stream
    });
    std::thread::sleep(Duration::from_millis(200));
    let began = Instant::now();
    server.ask_to_stop();
    assert!(matches!(server.wait(), Stopped::AsAsked));
    println!("stopped after {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    drop(begun);
}
