//! Ordered failures, full disks and damage.

use super::*;
use entourage_store::disk::read_all;

#[test]
fn a_writer_that_repeats_a_failed_sync_is_caught() -> io::Result<()> {
    for kind in [FailedSync::DropsWrites, FailedSync::ForgetsWrites] {
        let disk = disk_with("a", b"old")?;
        let file = disk.open("a")?;
        disk.fail_sync(0, kind);
        file.write_at(b"new", 0)?;
        assert!(file.sync().is_err());
        file.sync()?;
        let seen = if kind == FailedSync::DropsWrites { b"old" } else { b"new" };
        assert_eq!(read_all(&*file)?, seen);
        assert!(some(&disk, |image| is(image, "a", b"old")), "{kind:?}: the second sync wrote nothing");
        assert!(is(&disk.image(Image::Everything), "a", seen), "{kind:?}");
    }
    Ok(())
}

#[test]
fn a_writer_that_goes_on_after_a_failed_sync_has_a_gap() -> io::Result<()> {
    for kind in [FailedSync::DropsWrites, FailedSync::ForgetsWrites] {
        let disk = disk_with("a", b"")?;
        let file = disk.open("a")?;
        disk.fail_sync(0, kind);
        file.write_at(b"first", 0)?;
        assert!(file.sync().is_err());
        file.write_durable_at(b"second", 5)?;
        file.sync()?;
        assert!(some(&disk, |image| is(image, "a", b"\0\0\0\0\0second")), "{kind:?}");
        file.write_at(b"FIRST", 0)?;
        file.sync()?;
        assert!(images(&disk).all(|image| is(&image, "a", b"FIRSTsecond")), "{kind:?}: written anew it is durable");
    }
    Ok(())
}

#[test]
fn the_nth_sync_fails_whichever_it_is() -> io::Result<()> {
    let disk = CrashDisk::new();
    let file = disk.create("a")?;
    disk.fail_sync(1, FailedSync::ForgetsWrites);
    disk.fail_sync(2, FailedSync::ForgetsWrites);
    file.write_at(b"a", 0)?;
    file.sync()?;
    assert!(disk.sync_folder().is_err());
    assert!(file.write_durable_at(b"b", 1).is_err());
    disk.sync_folder()?;
    assert!(some(&disk, |image| image.names().is_empty()), "the repeated sync of the folder wrote nothing");
    disk.create("b")?;
    disk.sync_folder()?;
    assert!(images(&disk).all(|image| image.names().contains(&"b".to_owned())));
    Ok(())
}

#[test]
fn a_durable_name_is_not_overtaken_by_a_forgotten_one() -> io::Result<()> {
    let disk = disk_with("current", b"0")?;
    for content in [b"1", b"2"] {
        let file = disk.create("next")?;
        file.write_at(content, 0)?;
        file.sync()?;
        disk.rename("next", "current")?;
        if content == b"1" {
            disk.fail_sync(0, FailedSync::ForgetsWrites);
            assert!(disk.sync_folder().is_err());
        } else {
            disk.sync_folder()?;
        }
    }
    assert!(images(&disk).all(|image| is(&image, "current", b"2")));

    disk.create("a")?;
    disk.fail_sync(0, FailedSync::ForgetsWrites);
    assert!(disk.sync_folder().is_err());
    disk.rename("a", "b")?;
    disk.sync_folder()?;
    assert!(images(&disk).all(|image| image.names() == ["b", "current"]));
    Ok(())
}

#[test]
fn chosen_writes_fail_half_done() -> io::Result<()> {
    let disk = CrashDisk::new();
    let (log, block) = (disk.create("log-1")?, disk.create("block-1")?);
    disk.fail_write_with(io::ErrorKind::StorageFull, |name| name.starts_with("log"), 2);
    for _ in 0..2 {
        assert_eq!(log.write_at(b"1234", 0).map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull));
        block.write_at(b"1234", 0)?;
    }
    assert_eq!(read_all(&*log)?, b"12");
    log.write_at(b"1234", 0)?;
    assert_eq!(read_all(&*log)?, b"1234");
    assert!(disk.trace().contains("write log-1 at 0, 4 bytes: failed"), "{}", disk.trace());
    Ok(())
}

#[test]
fn a_full_disk_refuses_growth_until_it_has_space() -> io::Result<()> {
    let disk = disk_with("a", &[1; 60])?;
    disk.set_capacity(Some(100));
    let file = disk.create("b")?;
    file.write_at(&[2; 30], 0)?;
    let full = Err(io::ErrorKind::StorageFull);
    assert_eq!(file.write_at(&[3; 20], 30).map_err(|error| error.kind()), full);
    assert_eq!(file.size()?, 40, "what fits is there");
    assert_eq!(file.write_at(&[4; 1], 500).map_err(|error| error.kind()), full);
    assert_eq!(file.size()?, 40);
    file.write_at(&[5; 40], 0)?;
    file.sync()?;
    disk.set_capacity(Some(50));
    file.write_at(&[5; 40], 0)?;
    assert_eq!(file.write_at(&[5], 40).map_err(|error| error.kind()), full);
    disk.set_capacity(Some(100));
    disk.remove("a")?;
    file.write_at(&[6; 100], 0)?;
    assert!(file.write_at(&[7], 100).is_err());
    disk.set_capacity(None);
    file.write_at(&[7], 100)?;
    Ok(())
}

#[test]
fn only_written_bytes_are_sure_of_their_place() -> io::Result<()> {
    let disk = CrashDisk::new();
    let (sparse, zeroed) = (disk.create("sparse")?, disk.create("zeroed")?);
    sparse.set_size(100)?;
    zeroed.write_at(&[0; 100], 0)?;
    zeroed.sync()?;
    disk.sync_folder()?;
    disk.set_capacity(Some(100));
    let image = disk.image(Image::Nothing);
    for disk in [disk, image] {
        assert!(disk.open("sparse")?.write_at(b"x", 50).is_err());
        disk.open("zeroed")?.write_at(b"x", 50)?;
    }
    Ok(())
}

#[test]
fn what_is_cut_off_or_lost_gives_its_space_back() -> io::Result<()> {
    let disk = disk_with("a", &[1; 40])?;
    disk.set_capacity(Some(100));
    let file = disk.open("a")?;
    file.write_at(&[2; 60], 40)?;
    let image = disk.image(Image::Nothing);
    file.set_size(40)?;
    for disk in [disk, image] {
        let other = disk.create("b")?;
        other.write_at(&[3; 60], 0)?;
        assert!(other.write_at(&[3], 60).is_err());
    }
    Ok(())
}

#[test]
fn damage_is_seen_at_once_and_stays() -> io::Result<()> {
    let disk = disk_with("a", b"abc")?;
    let copy = disk.deep_clone();
    disk.flip_bit("a", 8 + 1)?;
    assert_eq!(read_all(&*disk.open("a")?)?, b"a`c");
    assert!(images(&disk).all(|image| is(&image, "a", b"a`c")));
    assert!(disk.flip_bit("a", 24).is_err() && disk.flip_bit("b", 0).is_err());
    disk.truncate("a", 1)?;
    assert!(images(&disk).all(|image| is(&image, "a", b"a")));
    disk.truncate("a", 9)?;
    assert_eq!(disk.open("a")?.size()?, 1, "truncation never grows a file");
    assert!(is(&copy, "a", b"abc"));
    Ok(())
}

#[test]
fn a_deep_clone_keeps_what_is_pending() -> io::Result<()> {
    let disk = disk_with("a", b"old")?;
    disk.open("a")?.write_at(b"new", 0)?;
    let clone = disk.deep_clone();
    disk.open("a")?.sync()?;
    assert!(is(&clone.image(Image::Nothing), "a", b"old") && is(&clone.image(Image::Everything), "a", b"new"));
    clone.open("a")?.sync()?;
    assert!(is(&clone.image(Image::Nothing), "a", b"new"));
    assert_eq!(clone.trace(), disk.trace());
    Ok(())
}
