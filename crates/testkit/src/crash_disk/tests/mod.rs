//! What the test disk must show for correct and incorrect writers.

mod failures;
mod model;
mod real;

use std::io;

use super::*;

const SEEDS: u64 = 200;

fn images(disk: &CrashDisk) -> impl Iterator<Item = CrashDisk> + '_ {
    [Image::Nothing, Image::Everything].into_iter().chain((0..SEEDS).map(Image::Random)).map(|image| disk.image(image))
}

/// Some image of the disk has it.
fn some(disk: &CrashDisk, has: impl Fn(&CrashDisk) -> bool) -> bool {
    images(disk).any(|image| has(&image))
}

fn is(disk: &CrashDisk, name: &str, bytes: &[u8]) -> bool {
    disk.contents(name).is_ok_and(|contents| contents == bytes)
}

/// A disk with a durable file.
fn disk_with(name: &str, bytes: &[u8]) -> io::Result<CrashDisk> {
    let disk = CrashDisk::new();
    let file = disk.create(name)?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    disk.sync_folder()?;
    Ok(disk)
}

#[test]
fn what_is_synced_is_in_every_image() -> io::Result<()> {
    let disk = disk_with("a", b"kept")?;
    disk.open("a")?.write_at(b"more", 4)?;
    assert!(images(&disk).all(|image| image.contents("a").is_ok_and(|bytes| bytes.starts_with(b"kept"))));
    Ok(())
}

#[test]
fn a_missing_sync_of_the_file_shows() -> io::Result<()> {
    let disk = CrashDisk::new();
    disk.create("a")?.write_at(b"data", 0)?;
    disk.sync_folder()?;
    assert!(some(&disk, |image| is(image, "a", b"")));
    assert!(some(&disk, |image| is(image, "a", b"data")));
    assert!(some(&disk, |image| is(image, "a", &[0; 4])), "the size may come before the data");
    Ok(())
}

#[test]
fn a_missing_sync_of_the_folder_shows() -> io::Result<()> {
    let disk = disk_with("old", b"old")?;
    let file = disk.create("new")?;
    file.write_at(b"new", 0)?;
    file.sync()?;
    assert!(some(&disk, |image| image.names() == ["old"]), "a synced file may have no name");
    assert!(images(&disk).all(|image| image.contents("new").map_or(true, |bytes| bytes == b"new")));

    disk.rename("new", "old")?;
    assert!(some(&disk, |image| is(image, "old", b"old")), "what was replaced may come back");
    assert!(some(&disk, |image| is(image, "old", b"new")));
    disk.sync_folder()?;
    assert!(images(&disk).all(|image| is(&image, "old", b"new") && image.names() == ["old"]));

    disk.remove("old")?;
    assert!(some(&disk, |image| is(image, "old", b"new")), "what was removed may come back");
    assert!(some(&disk, |image| image.names().is_empty()));
    Ok(())
}

#[test]
fn un_synced_writes_are_torn_and_reordered_by_sectors() -> io::Result<()> {
    let disk = disk_with("a", &[])?;
    let file = disk.open("a")?;
    file.write_at(&[1; 1024], 0)?;
    file.write_at(&[2; 512], 1024)?;
    let sectors = |image: &CrashDisk| -> Vec<Vec<u8>> {
        image.contents("a").unwrap_or_default().chunks(512).map(<[u8]>::to_vec).collect()
    };
    let (zeros, ones, twos) = (vec![0; 512], vec![1; 512], vec![2; 512]);
    assert!(
        some(&disk, |image| sectors(image) == [zeros.clone(), ones.clone()]),
        "the second sector without the first"
    );
    assert!(
        some(&disk, |image| sectors(image) == [zeros.clone(), zeros.clone(), twos.clone()]),
        "the later write only"
    );
    assert!(images(&disk).flat_map(|image| sectors(&image)).all(|sector| [&zeros, &ones, &twos].contains(&&sector)));
    Ok(())
}

#[test]
fn a_durable_write_takes_no_earlier_write_with_it() -> io::Result<()> {
    let disk = disk_with("a", &[9; 1536])?;
    let file = disk.open("a")?;
    file.write_at(&[1; 1536], 0)?;
    file.write_durable_at(&[2; 512], 512)?;
    assert!(images(&disk).all(|image| image.contents("a").is_ok_and(|bytes| bytes[512..1024] == [2; 512])));
    assert!(is(&disk.image(Image::Nothing), "a", &[[9; 512], [2; 512], [9; 512]].concat()));
    assert!(is(&disk.image(Image::Everything), "a", &[[1; 512], [2; 512], [1; 512]].concat()));
    file.sync()?;
    assert!(images(&disk).all(|image| is(&image, "a", &[[1; 512], [2; 512], [1; 512]].concat())));
    Ok(())
}

#[test]
fn the_call_under_way_at_the_cut_may_have_happened_in_part() -> io::Result<()> {
    let disk = disk_with("a", b"........")?;
    let file = disk.open("a")?;
    disk.crash_after(disk.operations());
    assert_eq!(file.write_at(b"12345678", 0).map_err(|error| error.to_string()), Err("crashed".into()));
    for wanted in [&b"........"[..], b"12345678", b"123....."] {
        assert!(some(&disk, |image| is(image, "a", wanted)), "{wanted:?}");
    }
    assert!(file.sync().is_err() && file.read_at(&mut [0], 0).is_err() && disk.list().is_err());
    assert!(disk.create("b").is_err() && disk.lock().is_err());
    assert_eq!(disk.operations(), 4 + 1, "calls after the cut do not count");

    for (action, undone, done) in [
        (&(|disk: &CrashDisk| disk.remove("a")) as &dyn Fn(&CrashDisk) -> io::Result<()>, vec!["a"], vec![]),
        (&|disk| disk.rename("a", "b"), vec!["a"], vec!["b"]),
        (&|disk| disk.create("b").map(drop), vec!["a"], vec!["a", "b"]),
    ] {
        let disk = disk_with("a", b"x")?;
        disk.crash_after(disk.operations());
        assert!(action(&disk).is_err());
        assert!(some(&disk, |image| image.names() == undone), "{}", disk.trace());
        assert!(some(&disk, |image| image.names() == done), "{}", disk.trace());
    }
    Ok(())
}

#[test]
fn a_sync_under_way_at_the_cut_promises_nothing() -> io::Result<()> {
    let disk = disk_with("a", b"old")?;
    let (file, _) = (disk.open("a")?, disk.create("b")?);
    file.write_at(b"new", 0)?;
    let folder = disk.deep_clone();
    for disk in [&disk, &folder] {
        disk.crash_after(disk.operations());
    }
    assert!(file.sync().is_err() && folder.sync_folder().is_err());
    for disk in [disk, folder] {
        assert!(some(&disk, |image| is(image, "a", b"old")) && some(&disk, |image| is(image, "a", b"new")));
        assert!(some(&disk, |image| image.names() == ["a"]) && some(&disk, |image| image.names() == ["a", "b"]));
    }
    Ok(())
}

#[test]
fn an_image_is_a_working_disk_of_its_own() -> io::Result<()> {
    let disk = disk_with("a", b"one")?;
    disk.crash_after(disk.operations());
    let image = disk.image(Image::Nothing);
    image.open("a")?.write_at(b"two", 0)?;
    image.open("a")?.sync()?;
    assert_eq!((image.contents("a")?, disk.contents("a")?), (b"two".to_vec(), b"one".to_vec()));
    assert_eq!(image.operations(), 2);
    Ok(())
}

#[test]
fn the_same_seed_is_the_same_image() -> io::Result<()> {
    let disk = CrashDisk::new();
    disk.create("a")?.write_at(&[7; 10_000], 300)?;
    disk.create("b")?.write_at(&[8; 10_000], 0)?;
    let look = |seed| {
        let image = disk.image(Image::Random(seed));
        image.names().into_iter().map(|name| (image.contents(&name).ok(), name)).collect::<Vec<_>>()
    };
    assert!((0..SEEDS).all(|seed| look(seed) == look(seed)));
    assert!((0..SEEDS).any(|seed| look(seed) != look(0)));
    Ok(())
}

#[test]
fn a_removed_or_renamed_file_is_still_open() -> io::Result<()> {
    let disk = disk_with("a", b"data")?;
    let (file, renamed) = (disk.open("a")?, disk.create("b")?);
    disk.rename("b", "c")?;
    disk.remove("a")?;
    renamed.write_at(b"c", 0)?;
    assert_eq!(entourage_store::disk::read_all(&*file)?, b"data");
    assert_eq!(entourage_store::disk::read_all(&*disk.open("c")?)?, b"c");
    assert_eq!(disk.open("a").err().map(|error| error.kind()), Some(io::ErrorKind::NotFound));
    assert_eq!(disk.rename("a", "b").map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
    assert_eq!(disk.remove("a").map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
    Ok(())
}

#[test]
fn the_lock_is_held_once() -> io::Result<()> {
    let disk = CrashDisk::new();
    let guard = disk.lock()?;
    assert_eq!(disk.clone().lock().err().map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
    assert!(disk.image(Image::Everything).lock().is_ok() && disk.deep_clone().lock().is_ok());
    drop(guard);
    assert!(disk.lock().is_ok());
    Ok(())
}

#[test]
fn ten_thousand_images_of_a_preallocated_store_are_quick() -> io::Result<()> {
    let disk = CrashDisk::new();
    for number in 0..4 {
        let file = disk.create(&format!("segment-{number}"))?;
        file.write_at(&vec![0; 16 << 20], 0)?;
        file.sync()?;
        file.write_at(&[5; 25_000], 0)?;
        file.sync()?;
        file.write_at(&[6; 5_000], 25_000)?;
    }
    disk.sync_folder()?;
    let start = std::time::Instant::now();
    for seed in 0..10_000 {
        assert_eq!(disk.image(Image::Random(seed)).names().len(), 4);
    }
    let elapsed = start.elapsed();
    assert!(elapsed.as_secs() < 5, "{elapsed:?}");
    Ok(())
}
